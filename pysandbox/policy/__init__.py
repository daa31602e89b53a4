"""What the user wants: the policy model, its sources and its merge laws. Pure data; nothing here touches the kernel."""
