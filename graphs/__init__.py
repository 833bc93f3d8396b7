"""The workflows: pure decisions on LangGraph, without input or output of their own."""
