"""What the code of users may not do: draw from generators that no seed decides, and give what nobody can use."""
