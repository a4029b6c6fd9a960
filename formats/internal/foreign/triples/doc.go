// Package triples reads knowledge graphs: folders or archives with train.txt, valid.txt and test.txt, each line of
// which is a head, a relation and a tail, separated by tabs.
//
// # Basics
//
// The graph holds the triples of train; those of valid and test are links to predict. Entities and relations are names,
// whatever they look like (leading zeros, slashes), numbered as they first appear in train, valid, test; the names are
// kept as "id" and "relation". The number of an edge's relation is its column "relation", and the label of a link. With
// relations as types each relation is an edge type of its own instead.
package triples
