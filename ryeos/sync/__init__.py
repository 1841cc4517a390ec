"""Objects, trees and merges of projects that travel."""
