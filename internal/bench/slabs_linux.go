package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// kernelMemory is what the kernel holds in its slabs, in bytes: sockets, files, and what waits for them are among it.
// What it keeps for whoever lists the descriptors of processes, an entry of /proc and its name for each, is left out
// where the system lets us see that.
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
	return total - listings(string(caches)), err
}

// slabs is the size of all slabs, of /proc/meminfo.
func slabs(meminfo string) (bytes int64, err error) {
	_, rest, found := strings.Cut(meminfo, "\nSlab:")
	if !found {
		return 0, errors.New("no slabs in /proc/meminfo")
	}
	_, err = fmt.Sscan(rest, &bytes)
	return bytes << 10, err
}

// listings is what entries of /proc take, of /proc/slabinfo: each has its own name.
func listings(slabinfo string) int64 {
	entries, entry := cache(slabinfo, "proc_inode_cache")
	_, name := cache(slabinfo, "dentry")
	return entries * (entry + name)
}

// cache is how many objects there are of a kind, and their size in bytes; 0 if the kernel joins it with others.
func cache(slabinfo, name string) (objects, size int64) {
	var active int64
	if _, rest, found := strings.Cut(slabinfo, "\n"+name+" "); found {
		_, _ = fmt.Sscan(rest, &active, &objects, &size) // of another kernel's form: nothing is known
	}
	return objects, size
}
