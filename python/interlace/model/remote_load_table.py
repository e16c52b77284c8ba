"""What may become of remote loads of unified arrays on a simulated machine, by name.

Made by tools/mechanism_tables.py of src/kernel/remote_loads.toml; do not edit.
"""

DIRECT = "direct"
PAGE_MIGRATION = "page-migration"
GRIFFIN = "griffin"
BYPASS = "bypass"
FINE_GRAINED = "fine-grained"
COALESCED = "coalesced"
RDMA_CACHE = "rdma-cache"
DUALOPT = "dualopt"
DUALOPT_ADAPTIVE = "dualopt-adaptive"
DUALOPT_PAGES = "dualopt-pages"
FINEPACK = "finepack"
DUALOPT_FINEPACK = "dualopt-finepack"

TREATMENTS = (
    DIRECT,
    PAGE_MIGRATION,
    GRIFFIN,
    BYPASS,
    FINE_GRAINED,
    COALESCED,
    RDMA_CACHE,
    DUALOPT,
    DUALOPT_ADAPTIVE,
    DUALOPT_PAGES,
    FINEPACK,
    DUALOPT_FINEPACK,
)
