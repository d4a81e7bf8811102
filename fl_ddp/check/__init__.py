"""What must hold for every method, as a command (python -m fl_ddp.check) and for the tests."""
