// Package linked has a list whose elements hold their own links. So an element is added without an allocation, and
// removed without a search.
package linked

// Links are the neighbours of an element. The element embeds them. Those of a removed element stay as they were.
type Links[E any] struct{ Prev, Next *E }

func (l *Links[E]) links() *Links[E] { return l }

// List holds elements in the order in which they were added. P is *E.
type List[E any, P interface {
	*E
	links() *Links[E]
}] struct{ First, Last *E }

// Push adds an element at the end. It must be in no list.
func (l *List[E, P]) Push(e *E) {
	*P(e).links() = Links[E]{Prev: l.Last}
	if l.Last == nil {
		l.First = e
	} else {
		P(l.Last).links().Next = e
	}
	l.Last = e
}

// Remove removes an element, which must be in the list.
func (l *List[E, P]) Remove(e *E) {
	at := P(e).links()
	if at.Prev == nil {
		l.First = at.Next
	} else {
		P(at.Prev).links().Next = at.Next
	}
	if at.Next == nil {
		l.Last = at.Prev
	} else {
		P(at.Next).links().Prev = at.Prev
	}
}
