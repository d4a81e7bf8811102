"""The model as functions of one flat vector theta: loss, features, dropout. Knows no method, no rank and no lane."""
