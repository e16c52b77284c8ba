// Takes a file as it is into a library.
#pragma once

// Defines `NAME` and `NAME_end`, arrays of bytes for `extern "C"` declarations. A byte of 0 follows
// the file. Use it at file scope. The compiler has no other way to embed a file.
#define INTERLACE_EMBED(NAME, FILE)                             \
  asm(".pushsection .rodata\n" /* NOLINT(hicpp-no-assembler) */ \
      ".balign 16\n"                                            \
      ".hidden " NAME                                           \
      "\n"                                                      \
      ".globl " NAME "\n" NAME                                  \
      ":\n"                                                     \
      ".incbin \"" FILE                                         \
      "\"\n"                                                    \
      ".hidden " NAME                                           \
      "_end\n"                                                  \
      ".globl " NAME "_end\n" NAME                              \
      "_end:\n"                                                 \
      ".byte 0\n"                                               \
      ".popsection\n")
