"""Interlace inside other programs: each module is a plug-in for one of them.

A module imports the program that it plugs into. Therefore only that program and its users import
the module.
"""
