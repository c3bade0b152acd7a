#!/bin/sh
# Simulation of the vendor's precheck: finds the NVSwitches' management functions and what they need.
# The lines it prints are those seen on a real HGX B200 (spectrocloud/CanvOS#700).
[ "$1 $2" = "--mode precheck" ] || { echo "Unknown option: $1" >&2; exit 1; }
echo "Polling for at least one Infiniband device before starting Fabric Manager..."
for device in /sys/class/infiniband/*; do
    [ -e "$device" ] || continue
    name=${device##*/}
    echo "Checking $name..."
    grep -q SW_MNG "$device/device/vpd" 2>/dev/null || continue
    # isSMDisabled: no subnet manager may run there.
    if [ $(($(cat "$device/ports/1/cap_mask") & 1024)) != 0 ]; then
        echo "Skipping $name, isSMDisabled is set on its port"
        continue
    fi
    echo "Using device $name, port $(cat "$device/ports/1/port_guid" 2>/dev/null)"
    echo "Detected NVL5+ system"
    command -v ibstat >/dev/null || { echo "ibstat command not found! Please install ibstat."; exit 1; }
    if ! [ -e /sys/module/ib_umad ]; then
        echo 'Kernel module "ib_umad" has not been loaded, fabric manager cannot be started'
        exit 1
    fi
    exit 0
done
echo "No NVL5+ device found, starting as for older systems"
