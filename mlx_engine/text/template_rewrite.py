"""Rewrites a parsed chat template so that its loops and the values it makes are counted."""

from typing import Any

from jinja2 import nodes
from jinja2.visitor import NodeTransformer


class CountingRewrite(NodeTransformer):
    """Wraps parts of the syntax tree in calls of the sandbox's methods.

    Items of loops go through `count_items`, lists, dicts, tuples and slices through `count_made`,
    `~` through `join_text`, what is compared and the text between tags through `count_read`. The
    methods are reached as attributes of the environment, which no template can spell or replace.
    """

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - jinja2's dispatch by name
        """for x in ITEMS -> for x in count_items(ITEMS)."""
        self.generic_visit(node)
        node.iter = _call("count_items", node.iter)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
        """A ~ b -> join_text(a, b)."""
        self.generic_visit(node)
        return _call("join_text", *node.nodes)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802
        """A == b -> count_read(a) == count_read(b)."""
        self.generic_visit(node)
        node.expr = _call("count_read", node.expr)
        for operand in node.ops:
            operand.expr = _call("count_read", operand.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:  # noqa: N802
        """a[b:c] -> count_made(a[b:c])."""
        self.generic_visit(node)
        return _call("count_made", node) if isinstance(node.arg, nodes.Slice) else node

    def visit_Output(self, node: nodes.Output) -> nodes.Output:  # noqa: N802
        """Text between tags, too, becomes an expression that is counted when it is written."""
        self.generic_visit(node)
        node.nodes = [
            _call("count_read", nodes.Const(part.data))
            if isinstance(part, nodes.TemplateData)
            else part
            for part in node.nodes
        ]
        return node

    def visit_List(self, node: nodes.List) -> nodes.Expr:  # noqa: N802
        """[...] -> count_made([...])."""
        self.generic_visit(node)
        return _call("count_made", node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Expr:  # noqa: N802
        """{...} -> count_made({...})."""
        self.generic_visit(node)
        return _call("count_made", node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:  # noqa: N802
        """(...) -> count_made((...)), unless it is assigned to."""
        self.generic_visit(node)
        return node if node.ctx != "load" else _call("count_made", node)


def _call(method: str, *arguments: Any) -> nodes.Call:
    function = nodes.EnvironmentAttribute(method)
    return nodes.Call(function, list(arguments), [], None, None)
