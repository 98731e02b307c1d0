package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// kernelMemory returns the size of the kernel's slabs in bytes, which contain sockets, files and their wait queues. It
// leaves out the entries of /proc for descriptors that a reader of /proc causes, where the system shows their size.
func kernelMemory() (int64, error) {
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	total, err := slabs(string(memory))
	if err != nil {
		return 0, err
	}
	caches, err := os.ReadFile("/proc/slabinfo")
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return total, nil
	}
	return total - procEntries(string(caches)), err
}

// slabs returns the size of all slabs in /proc/meminfo.
func slabs(meminfo string) (bytes int64, err error) {
	_, idleShare, found := strings.Cut(meminfo, "\nSlab:")
	if !found {
		return 0, errors.New("no slabs in /proc/meminfo")
	}
	_, err = fmt.Sscan(idleShare, &bytes)
	return bytes << 10, err
}

// procEntries returns the size of the entries of /proc in /proc/slabinfo. Each entry has a name.
func procEntries(slabinfo string) int64 {
	entries, entry := cache(slabinfo, "proc_inode_cache")
	_, name := cache(slabinfo, "dentry")
	return entries * (entry + name)
}

// cache returns the number of objects of a kind and their size in bytes; 0 if the kernel merges it with other kinds.
func cache(slabinfo, name string) (objects, size int64) {
	var active int64
	if _, idleShare, found := strings.Cut(slabinfo, "\n"+name+" "); found {
		_, _ = fmt.Sscan(idleShare, &active, &objects, &size) // in an unknown format nothing is known
	}
	return objects, size
}
