package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Bounds of the pages' sentences. A tutorial, recipe or explanation is for readers with any native language; the
// others have more technical matter.
const (
	longSentence    = 20 // words that a sentence should not exceed
	veryLong        = 25 // words; only counted
	meanOfGuides    = 13.0
	meanOfReference = 17.0
	longInGuides    = 0.08 // share of sentences that exceed longSentence
	longestInGuides = 32
)

// prose is the readability of a page: its words, and those of its sentences outside of tables, code and headings.
type prose struct {
	words, sentences, long, longest int
	sum, veryLong, riddles          int
	text                            string // the longest sentence
}

// add joins the figures of another page.
func (p *prose) add(o prose) {
	p.words += o.words
	p.sentences += o.sentences
	p.sum += o.sum
	p.veryLong += o.veryLong
	p.riddles += o.riddles
}

func (p prose) mean() float64 { return float64(p.sum) / max(1, float64(p.sentences)) }

func (p prose) share() float64 { return float64(p.long) / max(1, float64(p.sentences)) }

var (
	linkTarget  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	listItem    = regexp.MustCompile(`(?m)^ *(?:[-*]|\d+\.) `)
	sentenceEnd = regexp.MustCompile(`[.!?:](?:\s+|$)|\n\n+`)
	aWord       = regexp.MustCompile(`[\p{L}\p{N}]`)
)

// proseOf measures a page.
func proseOf(text string) (p prose) {
	p.words = len(strings.Fields(text))
	text = linkTarget.ReplaceAllString(codeBlock.ReplaceAllString(text, "\n\n"), "$1")
	var lines []string
	for _, line := range strings.Split(codeSpan.ReplaceAllString(text, "code"), "\n") {
		if strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") {
			line = "\n"
		}
		lines = append(lines, line)
	}
	text = listItem.ReplaceAllString(strings.Join(lines, "\n"), "\n\n")
	for _, sentence := range sentenceEnd.Split(strings.ReplaceAll(text, "**", ""), -1) {
		n := 0
		for _, word := range strings.Fields(sentence) {
			if aWord.MatchString(word) {
				n++
			}
		}
		if n == 0 {
			continue
		}
		p.sentences++
		p.sum += n
		p.riddles += len(riddle.FindAllString(strings.Join(strings.Fields(sentence), " "), -1))
		if n > longSentence {
			p.long++
		}
		if n > veryLong {
			p.veryLong++
		}
		if n > p.longest {
			p.longest, p.text = n, strings.Join(strings.Fields(sentence), " ")
		}
	}
	return p
}

// TestReadability bounds the sentences of the documentation. With -v it prints a table of all pages.
func TestReadability(t *testing.T) {
	front, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := append(front, documentation(t)...)
	var all prose
	table := fmt.Sprintf("%-44s %6s %6s %6s %8s\n", "page", "words", "mean", "over", "longest")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		page, p := filepath.ToSlash(page), proseOf(string(text))
		table += fmt.Sprintf("%-44s %6d %6.1f %5.0f%% %8d\n", page, p.words, p.mean(), 100*p.share(), p.longest)
		if page == "README.md" || strings.HasPrefix(page, "docs/") {
			all.add(p)
		}
		most := meanOfReference
		if isGuide(page) {
			most = meanOfGuides
			if p.longest > longestInGuides || p.share() > longInGuides && p.long > 1 {
				t.Errorf("%s: %d of %d sentences have over %d words, the longest %d: %s", page, p.long, p.sentences,
					longSentence, p.longest, p.text)
			}
		}
		if p.mean() > most {
			t.Errorf("%s: a sentence has %.1f words on average, want at most %.0f", page, p.mean(), most)
		}
	}
	t.Logf("\n%s\nREADME.md and docs: %d words in sentences, mean %.1f, %.1f%% of the sentences over %d words, "+
		"%.2f idioms in 1,000 words", table, all.sum, all.mean(), 100*float64(all.veryLong)/float64(all.sentences), veryLong,
		1000*float64(all.riddles)/float64(all.sum))
	if p := proseOf("# Title\n\nOne two. Three `a b c` five [six](x.md)\nseven.\n\n| a | b |\n\n- eight\n"); p.sum != 8 ||
		p.sentences != 3 || p.longest != 5 {
		t.Errorf("%+v", p)
	}
}

// isGuide reports whether a page is for newcomers.
func isGuide(page string) bool {
	folder := filepath.ToSlash(filepath.Dir(page))
	return folder == "docs/tutorials" || folder == "docs/recipes" || folder == "docs/explanation" || page == "README.md" ||
		page == "docs/README.md" || page == "docs/glossary.md"
}
