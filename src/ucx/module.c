/* A transport of UCX over the copy engine. UCX loads it as a plugin by UCX_PLUGIN_PATH, and
 * UCX_TLS calls it "interlace". Multi-path transfers beneath the messages of unmodified MPI
 * programs are an idea of A. Sojoodi et al., Accelerating Intra-Node GPU-to-GPU Communication
 * Through Multi-Path Transfers with CUDA Graphs, section 4. */
#include <dlfcn.h>
#include <interlace/copy.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <ucs/debug/log.h>
#include <ucs/sys/module.h>
#include <uct/api/version.h>
#include <uct/base/uct_component.h>

#include "memory.h"
#include "transport.h"

/* Checks the version of UCX. The module uses structures of UCX that are not part of its public
 * interface and that differ between versions. UCX reports its version in libucp, which is next
 * to the library that loaded this module. */
static int has_version(unsigned* major, unsigned* minor) {
  void (*tell)(unsigned*, unsigned*, unsigned*) = NULL;
  char folder[PATH_MAX], file[PATH_MAX + sizeof("/libucp.so.0")];
  void *library, *address;
  unsigned patch = 0;
  Dl_info of;
  if (dladdr((void*)(uintptr_t)&uct_component_register, &of) == 0 ||
      strlen(of.dli_fname) >= sizeof folder)
    return 0;
  strcpy(folder, of.dli_fname);
  (void)snprintf(file, sizeof file, "%s/libucp.so.0", dirname(folder));
  library = dlopen(file, RTLD_LAZY | RTLD_LOCAL); /* often loaded already; it stays loaded */
  if (library == NULL) return 0;
  address = dlsym(library, "ucp_get_version");
  if (address == NULL) return 0;
  memcpy(&tell, &address, sizeof tell);
  tell(major, minor, &patch);
  return 1;
}

UCS_MODULE_INIT() {
  unsigned major = 0, minor = 0;
  if (!has_version(&major, &minor)) {
    ucs_warn(
        "interlace: next to libuct there is no libucp, which reports UCX's version; the module is "
        "not "
        "used");
    return UCS_ERR_UNSUPPORTED;
  }
  if (major != UCT_VERNO_MAJOR || minor != UCT_VERNO_MINOR) {
    ucs_warn("interlace: the module is for UCX %d.%d, and this is %u.%u; it is not used",
             UCT_VERNO_MAJOR, UCT_VERNO_MINOR, major, minor);
    return UCS_ERR_UNSUPPORTED;
  }
  if (interlace_copy_abi() < INTERLACE_COPY_ABI) {
    ucs_warn("interlace: libinterlace.so %s is older than the module, so the module is not used",
             interlace_version());
    return UCS_ERR_UNSUPPORTED;
  }
  uct_component_register(&uct_interlace_component);
  uct_tl_register(&uct_interlace_component, &uct_interlace_tl);
  return UCS_OK;
}
