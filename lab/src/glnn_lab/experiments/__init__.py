"""What the paper measured, and more: cells, grids of them, and what comes out."""
