package server

import (
	"fmt"

	"github.com/khop-gnn/khop/integrations/shm"
)

// refusal is an error that a consumer receives, after which its connection or its run is over.
type refusal struct {
	code shm.Code
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// refuse makes a refusal.
func refuse(code shm.Code, format string, args ...any) error {
	return &refusal{code, fmt.Errorf(format, args...)}
}
