// Package tunpath joins two network namespaces by two TUN devices, and impairs the IP packets between them: delay,
// jitter, loss, duplication, reordering, corruption, rate, MTU and outages. The kernels' own stacks are at both ends,
// with their fragments, checksums and path MTU discovery. It needs root; without it, the test is skipped.
package tunpath
