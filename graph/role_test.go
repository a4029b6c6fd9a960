package graph

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// Roles are those of names: a dataset on disk says nothing else of them.
func TestColumnsHaveTheRoleOfTheirName(t *testing.T) {
	for name, want := range map[string]Role{"feature": Feature, "label": Label, "time": Time, "weight": Weight,
		"": NoRole, "Feature": NoRole, "features": NoRole, "feature_scale": NoRole} {
		c := Column{Name: name}
		if c.Role() != want || want != NoRole && want.String() != name {
			t.Errorf("column %q has the role %q", name, c.Role())
		}
	}
	expect.That(t, ScaleOf("feature") == "feature_scale", "%v", ScaleOf("feature"))
}
