"""What users give: command lines, lists of values, the content of YAML files."""
