"""Plug-ins that use Interlace inside other programs. Each module serves one program.

A module imports the program that it plugs into. Therefore only that program and its users import
the module.
"""
