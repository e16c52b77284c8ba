"""Plug-ins that use Interlace inside other programs. Each module serves one program.

A module imports its program. Therefore only the program itself, or code that uses the program, may
import the module.
"""
