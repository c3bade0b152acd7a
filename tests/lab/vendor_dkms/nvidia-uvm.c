/* Simulation of the driver's unified memory: its options, nothing else. */
#include <linux/module.h>

static int uvm_disable_hmm;
module_param(uvm_disable_hmm, int, 0444);

static int __init start(void) { return 0; }
static void __exit stop(void) { }

module_init(start);
module_exit(stop);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("b200kit lab, simulation of the driver");
MODULE_VERSION("@VERSION@");
