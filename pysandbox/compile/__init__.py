"""Policy + HostFacts + PathFacts -> Plan. Pure: nothing here opens, creates or starts anything."""
