"""Loaders: files of each format to a title and blocks of text."""
