/* The memory domain. It registers GPU memory and packs it into keys for other processes. In a
 * process that unpacks a key, the memory domain maps the memory. */
#ifndef INTERLACE_UCX_MEMORY_H
#define INTERLACE_UCX_MEMORY_H

#include <uct/base/uct_md.h>

#include "driver.h"

extern uct_component_t uct_interlace_component;

/* A number that differs between all processes of a machine, even if they are in different PID
 * namespaces. */
uint64_t process_number(void);

/* An allocation of another process that is mapped into this process. Unused mappings are kept
 * for a while, because mapping an allocation takes longer than a message. */
typedef struct mapping mapping;

/* An unpacked key of memory in another process. */
typedef struct remote_memory {
  device_address base; /* in the process that owns it */
  uint64_t bytes;
  device_address here;
  int gpu;     /* CUDA's number in this process */
  mapping* of; /* null: memory of this process */
} remote_memory;

/* Holds a mapping for an operation until the operation ends, even if the key is released
 * earlier. */
void hold_mapping(mapping* of);
void release_mapping(mapping* of);

#endif
