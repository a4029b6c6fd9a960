// Package meters measures what work costs: energy of the GPU board and of the host, utilisation, traffic over the bus,
// processor time.
//
// # Basics
//
// Open finds the meters, Start begins a measurement and Stop ends it with a Report. The board's meters are those of
// NVML, which is loaded at run time and only in builds with -tags cuda; the host's are the RAPL counters of Linux.
//
// # Caveats
//
// A meter counts everything that runs on its board or host, not only this process. Utilisation and PCIe throughput are
// means over samples, each of which covers only some milliseconds, so measure work of a second or more.
package meters
