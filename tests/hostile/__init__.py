"""Servers, or what stands before them, that send what no server sends."""
