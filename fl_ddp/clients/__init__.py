"""What methods ask of their clients: samples one by one, heads that stay with them, mixtures of them."""
