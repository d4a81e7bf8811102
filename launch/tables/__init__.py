"""A paper's tables: their rows, the runs behind them, our numbers beside the paper's."""
