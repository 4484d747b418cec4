/**
 * Loops over lists by index, and lists taken apart by index, where the sources say `for (const x of list)` and `const [a, b] = list`: what engines' optimising
 * compilers make of them, made when `dist` is built. Most functions of a compilation run too seldom to be optimised, and unoptimised an iterator costs a call
 * and an object for every element. Only what has the type of an array or a tuple is; sets, maps and generators keep their iterators.
 */
import ts from 'typescript'

const f = ts.factory

/** A transformer of a program's files, of those that `takes` says. */
export const listsByIndex = (program, takes) => (context) => {
  const checker = program.getTypeChecker()
  const isListType = (type) =>
    type.isUnion() ? type.types.every(isListType) : checker.isArrayType(type) || checker.isTupleType(type)
  const isList = (node) => isListType(checker.getTypeAtLocation(node))

  /** `{ 0: a, 2: b = 1 }` for `[a, , b = 1]`. */
  const byNumber = (pattern) =>
    f.createObjectBindingPattern(
      pattern.elements.flatMap((e, i) =>
        ts.isOmittedExpression(e)
          ? []
          : [
              f.createBindingElement(
                undefined,
                f.createNumericLiteral(i),
                ts.visitNode(e.name, visit),
                ts.visitNode(e.initializer, visit),
              ),
            ],
      ),
    )

  const isRest = (e) => ts.isBindingElement(e) && e.dotDotDotToken !== undefined
  const isPlain = (e) => ts.isBindingElement(e) && !isRest(e) && e.initializer === undefined

  /** `a = x, b = y` for `[a, b] = [x, y]`, where that is all. */
  const oneByOne = ({ name, initializer }) => {
    if (!ts.isArrayBindingPattern(name) || initializer === undefined || !ts.isArrayLiteralExpression(initializer))
      return undefined
    const values = initializer.elements
    if (values.length !== name.elements.length || !name.elements.every(isPlain)) return undefined
    if (values.some((x) => ts.isSpreadElement(x) || ts.isOmittedExpression(x))) return undefined
    return name.elements.map((e, i) =>
      f.createVariableDeclaration(ts.visitNode(e.name, visit), undefined, undefined, ts.visitNode(values[i], visit)),
    )
  }

  /** The list of `list.entries()`. */
  const entriesOf = (e) =>
    ts.isCallExpression(e) &&
    e.arguments.length === 0 &&
    ts.isPropertyAccessExpression(e.expression) &&
    e.expression.name.text === 'entries' &&
    isList(e.expression.expression)
      ? e.expression.expression
      : undefined

  /** A loop over a list by index. Its length is asked every round: it may grow. */
  const loopOf = (node) => {
    const { initializer, expression, statement } = node
    if (node.awaitModifier !== undefined || !ts.isVariableDeclarationList(initializer)) return undefined
    const [{ name }] = initializer.declarations
    const i = f.createUniqueName('i')
    const list = f.createUniqueName('list')
    const element = f.createElementAccessExpression(list, i)
    const pairs = entriesOf(expression)
    const isPair = ts.isArrayBindingPattern(name) && name.elements.length === 2 && !name.elements.some(isRest)
    const declare = (to, value) => f.createVariableDeclaration(to, undefined, undefined, value)
    let over = expression
    let bound
    if (pairs !== undefined && isPair) {
      over = pairs
      bound = name.elements.flatMap((e, at) =>
        ts.isBindingElement(e) ? [declare(ts.visitNode(e.name, visit), at === 0 ? i : element)] : [],
      )
    } else if (isList(expression)) bound = [declare(ts.visitNode(name, visit), element)]
    else return undefined
    const kind = initializer.flags & ts.NodeFlags.BlockScoped
    const loop = f.createForStatement(
      f.createVariableDeclarationList(
        [declare(i, f.createNumericLiteral(0)), declare(list, ts.visitNode(over, visit))],
        ts.NodeFlags.Let,
      ),
      f.createLessThan(i, f.createPropertyAccessExpression(list, 'length')),
      f.createPostfixIncrement(i),
      f.createBlock(
        [
          f.createVariableStatement(undefined, f.createVariableDeclarationList(bound, kind)),
          ts.visitNode(statement, visit),
        ],
        true,
      ),
    )
    return ts.setTextRange(ts.setOriginalNode(loop, node), node)
  }

  const visit = (node) => {
    if (ts.isForOfStatement(node)) {
      const loop = loopOf(node)
      if (loop !== undefined) return loop
    } else if (ts.isVariableDeclarationList(node)) {
      return f.updateVariableDeclarationList(
        node,
        node.declarations.flatMap((d) => oneByOne(d) ?? ts.visitNode(d, visit)),
      )
    } else if (ts.isArrayBindingPattern(node) && !node.elements.some(isRest) && isList(node)) return byNumber(node)
    return ts.visitEachChild(node, visit, context)
  }
  return (file) => (takes(file.fileName) ? ts.visitNode(file, visit) : file)
}
