"""The files of a build folder, as text: a pure function of what is to be in the image."""
