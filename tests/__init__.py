"""The tests; a package, so that no distribution that installs a folder of this name hides it."""
