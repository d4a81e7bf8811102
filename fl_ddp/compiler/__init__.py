"""How functions of tensors are compiled, and passes over what the compiler makes of them."""
