package daemon

import (
	"testing"
	"testing/fstest"
)

// TestGroupLimit finds the smallest limit of a control group and the groups around it, in both versions.
func TestGroupLimit(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no control groups", nil, 0},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		{"a service", map[string]string{
			"proc/self/cgroup": "0::/system.slice/tidegate.service\n",
			"sys/fs/cgroup/system.slice/tidegate.service/memory.max": "4294967296\n",
			"sys/fs/cgroup/system.slice/memory.max":                  "max\n",
		}, 4 << 30},
		{"a smaller limit of the slice", map[string]string{
			"proc/self/cgroup": "0::/system.slice/tidegate.service\n",
			"sys/fs/cgroup/system.slice/tidegate.service/memory.max": "4294967296\n",
			"sys/fs/cgroup/system.slice/memory.max":                  "1073741824\n",
		}, 1 << 30},
		{"a container with its own root", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "2147483648\n",
		}, 2 << 30},
		{"a container with the host's path", map[string]string{
			"proc/self/cgroup": "0::/kubepods/pod1\n", "sys/fs/cgroup/memory.max": "2147483648\n",
		}, 2 << 30},
		{"version 1", map[string]string{
			"proc/self/cgroup": "5:cpu:/other\n4:memory:/docker/1\n",
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "536870912\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          "9223372036854771712\n",
		}, 512 << 20},
	} {
		root := make(fstest.MapFS)
		for name, text := range test.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := groupLimit(root); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
