package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completed returns bash's completions after some words.
func completed(t *testing.T, words ...string) []string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "tidegate")); err != nil {
		t.Fatal(err)
	}
	script := `source <(tidegate completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tidegate; printf ` +
		`'%s\n' "${COMPREPLY[@]}"`
	cmd := exec.Command(bash, append([]string{"-c", script, "bash", "tidegate"}, words...)...)
	cmd.Env = append(os.Environ(), "TIDEGATE_MAIN=1", "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Fields(string(out))
}

func TestCompletionInBash(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"che"}, "check"},
		{[]string{"demo", "--fr"}, "--from"},
		{[]string{"completion", ""}, "fish"},
	} {
		if got := completed(t, c.words...); !slices.Contains(got, c.want) {
			t.Errorf("after %q: %q, want %q among them", c.words, got, c.want)
		}
	}
}

func TestCompletionAndManual(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"completion zsh", "#compdef tidegate"},
		{"completion fish", "complete -c tidegate"},
		{"man", ".SH \"NAME\""},
	} {
		code, stdout, stderr := tidegate(t, strings.Fields(c.args)...)
		if code != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("%s: code %d, says %.80q %q; want %q", c.args, code, stdout, stderr, c.want)
		}
	}
	if code, _, stderr := tidegate(t, "completion", "cmd"); code != 2 || !strings.Contains(stderr, "bash, zsh or fish") {
		t.Errorf("a shell that is none: code %d, says %q", code, stderr)
	}
}
