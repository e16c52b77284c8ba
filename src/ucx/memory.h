/* The memory domain: GPU memory that is registered, packed into keys for other processes, and
 * mapped where they unpack them. */
#ifndef INTERLACE_UCX_MEMORY_H
#define INTERLACE_UCX_MEMORY_H

#include <uct/base/uct_md.h>

#include "driver.h"

extern uct_component_t uct_interlace_component;

/* Tells apart the processes of a machine, whichever PID namespace they are in. */
uint64_t process_number(void);

/* An allocation of another process in this one's addresses. Those that nobody uses any more are
 * kept for a while: to map one takes longer than a message. */
typedef struct mapping mapping;

/* A remote key, unpacked. */
typedef struct remote_memory {
  device_address base; /* in its own process */
  uint64_t bytes;
  device_address here;
  int gpu;     /* CUDA's number in this process */
  mapping* of; /* null: memory of this process */
} remote_memory;

/* An operation holds the mapping until it is over, whatever becomes of the key. */
void hold_mapping(mapping* of);
void release_mapping(mapping* of);

#endif
