"""The papers' tables: published question files in, a page an experiment out."""
