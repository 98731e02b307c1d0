package netio

// KernelDropCounter is a listening socket whose kernel tells what it has dropped. Only Linux's do.
type KernelDropCounter interface {
	// KernelDrops is how many datagrams the kernel has dropped since the socket was opened, for want of room or because of a
	// filter. It wraps.
	KernelDrops() uint32
	// SetFiltered tells that a filter which does not count its drops stands before the socket from now on, or no more. Drops
	// meanwhile are Stats.FilterDrops.
	SetFiltered(on bool)
}
