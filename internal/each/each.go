// Package each makes a list of another one.
package each

// Of returns what a function makes of each element of a list, in the list's order. It is never nil.
func Of[E, T any](list []E, of func(E) T) []T {
	all := make([]T, len(list))
	for i, element := range list {
		all[i] = of(element)
	}
	return all
}
