"""What facts mean: rules with a code each, and the verdict that follows from them. All pure."""
