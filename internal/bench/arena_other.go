//go:build !linux

package bench

import "errors"

func openCable() (*arena, error)   { return nil, errors.ErrUnsupported }
func hurry(int, int) error         { return errors.ErrUnsupported }
func hurrySession(int) error       { return errors.ErrUnsupported }
func interrupt(int) error          { return errors.ErrUnsupported }
func yieldThread(int) (int, error) { return 0, errors.ErrUnsupported }
func disturb(int)                  {}
func overflows(uint16) uint64      { return 0 }
