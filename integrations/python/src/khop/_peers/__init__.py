"""What the folders of PyG's, DGL's and GraphBolt's names share."""
