// Embeds an unchanged file in a library.
#pragma once

// Defines the arrays `NAME` and `NAME_end`, which the code declares as `extern "C"` arrays of
// bytes. A byte of 0 follows the contents of the file. Use the macro at file scope. The compiler
// has no other way to embed a file.
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
