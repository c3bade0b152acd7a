"""The nodes' power: Redfish emulator and IPMI simulator."""
