//go:build !linux

package proxy

import "time"

var processBegan = time.Now()

// threadTime stands for the processor time of this thread.
func threadTime() time.Duration { return time.Since(processBegan) }
