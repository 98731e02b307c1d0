package config

import "fmt"

// Record configures the black boxes, which keep the last datagrams of all sessions.
type Record struct {
	Last      Duration `toml:"last"`       // age of the oldest datagram that is kept; 0: nothing is recorded
	Memory    Size     `toml:"memory"`     // of all loops together
	Directory string   `toml:"directory"`  // for files of sessions that end in an abnormal way; empty: none are saved
	Files     int      `toml:"files"`      // number of files in the directory
	FilesSize Size     `toml:"files_size"` // of all files in the directory together
}

func defaultRecord() Record { return Record{Memory: 64 * MiB, Files: 100, FilesSize: 256 * MiB} }

func (v *validator) record() {
	r := v.Record
	within(v.report, "record.last", r.Last, 0, seconds(600))
	within(v.report, "record.memory", r.Memory, 4*MiB, 16*GiB)
	within(v.report, "record.files", r.Files, 1, 10_000)
	within(v.report, "record.files_size", r.FilesSize, MiB, 1024*GiB)
	if r.Directory != "" && r.Last == 0 {
		v.warn("record.directory", r.Directory, fmt.Sprintf("record.last above %q: nothing is recorded", "0s"))
	}
}
