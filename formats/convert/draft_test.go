package convert

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// A draft of a database's manifest is one: saved beside the tables it converts.
func TestADraftOfAManifestIsOne(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"users.csv":    "userId,age,createdAt\n1,20,2024-01-01\n2,30,2024-01-02\n",
		"products.csv": "id,price\n7,2.5\n8,3.5\n",
		"orders-0.csv": "orderId,userId,productId,at\n100,1,7,2024-01-05 10:00:00\n",
		"orders-1.csv": "orderId,userId,productId,at\n101,2,8,2024-01-06 10:00:00\n",
	} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	target := filepath.Join(t.TempDir(), "x")
	res := expect.Must(Run(context.Background(), dir, target, Options{From: "relbench", DryRun: true}))(t)
	for _, says := range []string{
		`"users": {file: "users.csv", pkey: "userId", time_col: "createdAt", fkeys: {}}`,
		`"products": {file: "products.csv", pkey: "id", time_col: null, fkeys: {}}`,
		`"orders": {file: "orders-*.csv", pkey: "orderId", time_col: "at", fkeys: {"userId": "users", ` +
			`"productId": "products"}}`} {
		expect.That(t, strings.Contains(res.Draft, says), "no %s in\n%s", says, res.Draft)
	}
	expect.OK(t, os.WriteFile(filepath.Join(dir, "manifest.yaml"), []byte(res.Draft), 0o600))
	res = expect.Must(Run(context.Background(), dir, target, Options{}))(t)
	expect.That(t, res.Kind == "relbench" && res.Nodes == 6 && res.Edges == 8, "%+v", res)
}
