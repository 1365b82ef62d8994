"""What LaTeX commands look like in Unicode."""


def _table(pairs: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in pairs.split())


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


GREEK = _table(
    "alpha=α beta=β gamma=γ delta=δ epsilon=ϵ zeta=ζ eta=η theta=θ iota=ι kappa=κ lambda=λ mu=μ "
    "nu=ν xi=ξ pi=π rho=ρ sigma=σ tau=τ upsilon=υ phi=ϕ chi=χ psi=ψ omega=ω varepsilon=ε "
    "vartheta=ϑ varphi=φ varrho=ϱ varsigma=ς varpi=ϖ"
)
CAPITALS = _table(
    "Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω"
)

SPACED = _table(
    "pm=± mp=∓ times=× div=÷ cdot=· ast=∗ star=⋆ circ=∘ bullet=• oplus=⊕ otimes=⊗ odot=⊙ "
    "cap=∩ cup=∪ setminus=∖ wedge=∧ land=∧ vee=∨ lor=∨ le=≤ leq=≤ leqslant=≤ ge=≥ geq=≥ "
    "geqslant=≥ ne=≠ neq=≠ ll=≪ gg=≫ approx=≈ equiv=≡ sim=∼ simeq=≃ cong=≅ propto=∝ prec=≺ "
    "succ=≻ in=∈ ni=∋ notin=∉ subset=⊂ subseteq=⊆ supset=⊃ supseteq=⊇ mid=∣ parallel=∥ "
    "perp=⊥ to=→ rightarrow=→ leftarrow=← gets=← leftrightarrow=↔ Rightarrow=⇒ Leftarrow=⇐ "
    "Leftrightarrow=⇔ iff=⇔ implies=⇒ impliedby=⇐ mapsto=↦ longrightarrow=⟶ "
    "longleftarrow=⟵ hookrightarrow=↪ rightharpoonup=⇀ uparrow=↑ downarrow=↓ vdash=⊢ models=⊨ "
    "triangleq=≜ doteq=≐ asymp=≍ bmod=mod coloneqq=≔"
)
"""Operators and relations: written with thin space around them."""

PLAIN = _table(
    "infty=∞ partial=∂ nabla=∇ forall=∀ exists=∃ nexists=∄ emptyset=∅ varnothing=∅ neg=¬ "
    "lnot=¬ top=⊤ bot=⊥ angle=∠ triangle=△ square=□ Box=□ blacksquare=■ therefore=∴ because=∵ "
    "sum=∑ prod=∏ coprod=∐ int=∫ iint=∬ iiint=∭ oint=∮ bigcup=⋃ bigcap=⋂ bigoplus=⨁ "
    "bigotimes=⨂ bigvee=⋁ bigwedge=⋀ ldots=… dots=… cdots=⋯ vdots=⋮ ddots=⋱ dotsc=… dotsb=⋯ "
    "hbar=ℏ ell=ℓ Re=ℜ Im=ℑ aleph=ℵ wp=℘ imath=ı jmath=ȷ prime=′ dagger=† ddagger=‡ "
    "langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ lvert=| rvert=| vert=| lVert=‖ "
    "rVert=‖ Vert=‖ lbrace={ rbrace=} lbrack=[ rbrack=] backslash=\\ checkmark=✓ degree=° "
    "S=§ P=¶ pounds=£ copyright=© colon=: surd=√ complement=∁"
)

SPACES = {
    ",": "\u2009",
    ":": "\u2005",
    ";": "\u2004",
    "!": "",
    " ": " ",
    "quad": "\u2003",
    "qquad": "\u2003\u2003",
    "thinspace": "\u2009",
    "\\": "; ",
}
ESCAPED = {letter: letter for letter in "{}$%&#_"} | {"|": "‖"}

FUNCTIONS = _names(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp lim limsup liminf "
    "max min sup inf arg det dim ker deg gcd hom Pr argmax argmin"
)
"""Set upright, with a space before what follows."""

IGNORED = _names(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr displaystyle textstyle limits nolimits "
    "nonumber notag hline mathstrut"
)

ACCENTS = {
    "hat": "\u0302",
    "widehat": "\u0302",
    "tilde": "\u0303",
    "widetilde": "\u0303",
    "bar": "\u0304",
    "overline": "\u0305",
    "underline": "\u0332",
    "vec": "\u20d7",
    "dot": "\u0307",
    "ddot": "\u0308",
    "check": "\u030c",
    "acute": "\u0301",
    "grave": "\u0300",
}
"""Combining marks, put after the letter."""

BLACKBOARD = dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True)) | {"E": "𝔼", "F": "𝔽", "1": "𝟙"}
SCRIPT = dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True))

RAISED = dict(zip("0123456789+-=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ", strict=True))
LOWERED = dict(zip("0123456789+-=()", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎", strict=True))

UPRIGHT = _names("mathrm text textrm textnormal operatorname operatorname* mathsf mbox")
