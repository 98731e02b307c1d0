package filewatch

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// publish gives a volume new files as the kubelet does: it replaces the link ..data, and then removes the old files.
func publish(t *testing.T, volume, version string) {
	t.Helper()
	fresh, link := filepath.Join(volume, ".."+version), filepath.Join(volume, "..data")
	must(t, os.MkdirAll(filepath.Join(fresh, "keys"), 0o700))
	write(t, filepath.Join(fresh, "tls.crt"))
	write(t, filepath.Join(fresh, "keys", "tls.key"))
	old, _ := os.Readlink(link) // none at first
	must(t, os.Symlink(".."+version, link+"_tmp"), os.Rename(link+"_tmp", link))
	if old != "" {
		must(t, os.RemoveAll(filepath.Join(volume, old)))
	}
}

// TestFollowsVolumesOfKubernetes replaces a volume's files several times. Each file must be reported once.
func TestFollowsVolumesOfKubernetes(t *testing.T) {
	volume := t.TempDir()
	certificate, key := filepath.Join(volume, "tls.crt"), filepath.Join(volume, "keys", "tls.key")
	publish(t, volume, "0")
	must(t, os.Symlink("..data/tls.crt", certificate), os.Symlink("..data/keys", filepath.Dir(key)))
	told := watch(t, certificate, key)
	for i := range 2 {
		publish(t, volume, strconv.Itoa(i+1))
		got := []string{next(t, told), next(t, told)}
		slices.Sort(got)
		if want := []string{key, certificate}; !slices.Equal(got, want) {
			t.Fatalf("told of %q, want %q", got, want)
		}
	}
	if len(told) > 0 {
		t.Errorf("told of %s once more", <-told)
	}
}

// TestFollowsCertificatesOfCertbot renews a certificate behind two links, one absolute, and then writes to it. The new
// one is in another folder: the watch of the old one must end. At last this folder goes and comes back.
func TestFollowsCertificatesOfCertbot(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "etc", "x.pem"), filepath.Join(dir, "live", "host", "x.pem")
	first, second := filepath.Join(dir, "archive", "host", "x1.pem"), filepath.Join(dir, "archive", "host-2", "x2.pem")
	for _, file := range []string{file, link, first, second} {
		must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	}
	write(t, first)
	write(t, second)
	must(t, os.Symlink("../../archive/host/x1.pem", link), os.Symlink(link, file))
	w, told := watcher(t, file)
	watches := len(w.notify.WatchList())
	must(t, os.Remove(link), os.Symlink("../../archive/host-2/x2.pem", link))
	expect(t, told, file)
	if now := w.notify.WatchList(); len(now) != watches {
		t.Errorf("watches %q, %d at first", now, watches)
	}
	write(t, second)
	expect(t, told, file)
	folder := filepath.Dir(second)
	for _, change := range [][2]string{{folder, folder + ".away"}, {folder + ".away", folder}} {
		must(t, os.Rename(change[0], change[1]))
		expect(t, told, file)
	}
}

// TestLeavesCircles makes a link of a circle lead to a file.
func TestLeavesCircles(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	must(t, os.Symlink("b", file), os.Symlink("a", other))
	told := watch(t, file)
	must(t, os.Remove(other))
	write(t, other)
	expect(t, told, file)
}

func TestTrail(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("a/file"))
	must(t, os.Symlink("a//b/", in("folder")), os.Symlink("folder/../file", in("file")), os.Symlink("no/file", in("no")),
		os.Symlink(in("a/none/x"), in("gone")))
	for name, want := range map[string][]string{
		"a/file": {in("a/file")},
		"file":   {in("file"), in("folder"), in("a/file")},
		"gone":   {in("gone"), in("a/none")},
		"no":     slices.Repeat([]string{in("no")}, 40),
	} {
		if got := trail(in(name)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
