/* The transport: puts and gets between GPUs of a machine, as copies over all paths that help. */
#ifndef INTERLACE_UCX_TRANSPORT_H
#define INTERLACE_UCX_TRANSPORT_H

#include <uct/base/uct_iface.h>

extern uct_tl_t uct_interlace_tl;

#endif
