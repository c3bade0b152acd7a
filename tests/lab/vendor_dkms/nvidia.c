/* Simulation of the NVIDIA driver: a real kernel module that is built by DKMS, takes the virtual
 * machine's stand-in devices (QEMU's pci-testdev) as a driver takes its GPUs, and says in
 * /proc/driver/nvidia what the real one says. It does nothing else. */
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#define VERSION "@VERSION@"

/* Name in modprobe.d after NVreg_, name in /proc/driver/nvidia/params, default (nv-reg.h). */
#define PARAMETERS(use) \
	use(EnableStreamMemOPs, EnableStreamMemOPs, 0) \
	use(NvLinkDisable, NvLinkDisable, 0) \
	use(RestrictProfilingToAdminUsers, RmProfilingAdminOnly, 1) \
	use(DmaRemapPeerMmio, DmaRemapPeerMmio, 1) \
	use(EnablePCIERelaxedOrderingMode, EnablePCIERelaxedOrderingMode, 0) \
	use(RmNvlinkBandwidthLinkCount, RmNvlinkBandwidthLinkCount, 0) \
	use(ImexChannelCount, ImexChannelCount, 2048)

#define DECLARE(option, shown, value) \
	static int NVreg_##option = value; \
	module_param(NVreg_##option, int, 0);
PARAMETERS(DECLARE)

static const struct pci_device_id ids[] = { { PCI_DEVICE(0x1b36, 0x0005) }, { } };
MODULE_DEVICE_TABLE(pci, ids);

static int show_version(struct seq_file *file, void *unused)
{
	seq_puts(file, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " VERSION
		 "  Release Build  (b200kit lab, simulation)\nGCC version:  simulation\n");
	return 0;
}

#define SHOW(option, shown, value) seq_printf(file, #shown ": %d\n", NVreg_##option);
static int show_params(struct seq_file *file, void *unused)
{
	PARAMETERS(SHOW)
	return 0;
}

static int probe(struct pci_dev *device, const struct pci_device_id *id) { return 0; }
static void gone(struct pci_dev *device) { }
static struct pci_driver driver = {
	.name = "nvidia", .id_table = ids, .probe = probe, .remove = gone,
};

static struct proc_dir_entry *folder;

static int __init start(void)
{
	pr_info("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  " VERSION "\n");
	folder = proc_mkdir("driver/nvidia", NULL);
	proc_create_single("version", 0444, folder, show_version);
	proc_create_single("params", 0444, folder, show_params);
	return pci_register_driver(&driver);
}

static void __exit stop(void)
{
	pci_unregister_driver(&driver);
	proc_remove(folder);
}

module_init(start);
module_exit(stop);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("b200kit lab, simulation of the driver");
MODULE_VERSION(VERSION);
MODULE_SOFTDEP("post: nvidia-uvm");
